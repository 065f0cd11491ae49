"""The users service: `rt.users` and `rt.aio.users` have the same methods."""

from __future__ import annotations

from actors.errors.calls import explains_all_wrong_calls
from actors.rules.checks.ids import checked_known_id
from runtime.driver.engine_client import EngineClient
from runtime.driver.services.artifacts import ArtifactsService
from runtime.engine.user_deletion import DeletedUser, delete_user


@explains_all_wrong_calls
class _Users:
    """The requests about a user, as coroutines for the portal's loop."""

    def __init__(self, client: EngineClient, artifacts: ArtifactsService) -> None:
        self._client = client
        self._artifacts = artifacts

    async def _delete(self, user_id: str) -> DeletedUser:
        user = checked_known_id("user id", user_id)
        return await delete_user(self._client.engine, self._artifacts.store, self._client.app_name, user)


@explains_all_wrong_calls
class UsersService(_Users):
    """Users of the app: `rt.users`."""

    def delete(self, user_id: str) -> DeletedUser:
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
        return self._client.run(self._delete(user_id))


@explains_all_wrong_calls
class AsyncUsersService(_Users):
    """Users of the app, for callers on an event loop: `rt.aio.users`. See UsersService."""

    async def delete(self, user_id: str) -> DeletedUser:
        """Delete all data of a user."""
        return await self._client.run_async(self._delete(user_id))
