"""What a layer lets a higher one add: a name here is filled when the package is loaded, and called when it is needed.

So a lower layer can use what it may not import, and nothing is loaded for those who do not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: store, project, settings, clock, say: the same store, in step with the files of the protocol in `[protocol]`
follow: Callable[..., Any]
#: project, the store's folder: hook events that wait in the spool are recorded
drain_before_reading: Callable[..., None]
#: project: names the protocol whose files are there and not imported
point_out: Callable[..., None]
#: workflow, project, whether nothing of it is done: its `agent:` steps are in order, and can be executed
prepare_agents: Callable[..., None]
