"""What actors say to each other.

Commands go down (driver -> Runner -> agents), facts go out through the log (agents -> Session actor -> drivers), and a
reply carries an Outcome or a small fact, never an event. Every message is one struct; the tag is the class's name.
Events travel as the bytes that their author encoded, beside the place that the Session actor gave them.

What is sent first is a `Request`, which says of itself how it is answered: see `base.py`.
"""

from actors.messages.protocol.base import *
from actors.messages.protocol.log import *
from actors.messages.protocol.runs import *
from actors.messages.protocol.sessions import *
from actors.messages.protocol.statistics import *
from actors.messages.protocol.subscriptions import *
from actors.messages.protocol.turns import *
