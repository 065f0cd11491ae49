"""Users of an app: `rt.users` and `rt.aio.users`, and `/v1/apps/{app}/users`."""

from __future__ import annotations

from collections.abc import Sequence

from actors.errors import RequestError
from actors.layers.placing.messages import GetStoreSeat
from actors.rules.checks.ids import checked_known_id
from runtime.driver.arguments import checked_text, checked_time
from runtime.driver.operation import AppOperation
from runtime.driver.waits import Awaited, M, RuntimeService, waits
from runtime.engine.store_urls import shown_session_store
from runtime.engine.users import DeletedUser, MovedUser, move_user
from runtime.engine.users import delete_user as delete_data


class UsersService(RuntimeService[M]):
    """Users of the app."""

    @waits
    async def delete(self, user_id: str) -> DeletedUser:
        """Delete all data of a user: sessions, artifacts, memory, schedules and `user:` state.

        Turns of the user are cancelled first. Requests that come meanwhile wait, and begin afresh afterwards. Other users are not
        disturbed. An unknown user is no error. Repeat it when it has failed: what was deleted stays so.

        Returns:
            How much was deleted.

        Raises:
            InvalidIdError: the id cannot be one.
            StoreError: a store failed, or is an object of your own that cannot delete a user.
            ClusterError: the actors could not be reached.
        """
        user = checked_known_id("user id", user_id)
        return await delete_data(self._client.engine, self._client.artifacts, self._client.app_name, user)

    @waits
    async def move(self, user_id: str, to: str, *, timeout: float = 60.0) -> MovedUser:
        """Move all data of a user to another store of the deployment: see "Several stores" in docs/sessions-and-state.md.

        The user's turns that run or wait are waited for. Requests that come meanwhile wait, and go on in the other store.
        Interrupted at any point the user is in one of the two, with everything; call it again. An unknown user is no error:
        the result says `has_data=False`, and turns of the user begin in that store.

        Args:
            to: the URL of the store, one of those that the deployment was started with.
            timeout: how long to wait for the user's turns, in seconds.

        Raises:
            InvalidIdError, RequestError: an argument is wrong; turns of the user do not end in time; or the deployment has one
                store, or several Session actors for each.
            StoreError: a store failed, or is an object of your own that cannot move users.
        """
        user = checked_known_id("user id", user_id)
        session, app = self._client.session, self._client.app_name
        shown = shown_session_store(checked_text("to", to))
        stores = [((await store.shards[0].ask(GetStoreSeat(app=app))).store).name for store in session.stores]
        if shown not in stores:
            raise RequestError(f"{shown} is none of the stores of app {app!r}: {', '.join(stores)}")
        return await move_user(session, app, user, stores.index(shown), checked_time("timeout", timeout))


async def delete_user(users: UsersService[Awaited], user_id: str) -> DeletedUser:
    """Delete all data of a user: sessions, artifacts, memory, schedules and state. Turns of the user are cancelled first."""
    return await users.delete(user_id)


OPERATIONS: Sequence[AppOperation] = [AppOperation("DELETE /v1/apps/{app}/users/{user}", delete_user, for_admins=False)]
"""What may be done with users."""
