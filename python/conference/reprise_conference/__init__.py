"""Join conferences of Reprise (docs/join.md).

`Client` makes requests to the conference service. A leg is the connection of one of a participant's
UDP sockets to the service, with a number and a key. `MediaSocket` is a UDP socket that signs in to
a leg and stays signed in. `reprise_conference.events.Events` streams a conference's events.
"""

from reprise_conference.client import Client, ProblemError
from reprise_conference.hello import Received, SigningIn
from reprise_conference.media import MediaSocket, NotSignedInError

__all__ = ["Client", "MediaSocket", "NotSignedInError", "ProblemError", "Received", "SigningIn"]
