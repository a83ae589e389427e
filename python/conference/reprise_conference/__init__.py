"""Join conferences of Reprise (docs/join.md).

`Client` makes requests to the conference service, `MediaSocket` is a UDP socket that is signed in
to a leg and kept so. `reprise_conference.events.Events` streams a conference's events.
"""

from reprise_conference.client import Client, ProblemError
from reprise_conference.hello import Received, SigningIn
from reprise_conference.media import MediaSocket, NotSignedInError

__all__ = ["Client", "MediaSocket", "NotSignedInError", "ProblemError", "Received", "SigningIn"]
