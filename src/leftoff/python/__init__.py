"""The Python API: runs as objects, and durable functions (``@leftoff.step``, ``@leftoff.workflow``).

``store_api``      the functions of the package, as methods of the project's store
``run_api``        a run as an object; ``run_steps``: its steps, loops and maps
``run_buffer``     the changes of a driven run until they are committed together, and its heartbeat
``value_kinds``    how Python values are recorded, and read back as what they were
``durable``        the decorators; ``durable_calls`` makes calls, ``replay`` follows the record

A durable workflow is called again from its first line when its run is resumed, and each finished step returns its
recorded result. A step is recognised by its path: the branches it is in, and the number of the call within the
innermost one. A digest of its arguments says whether it is still the same call.
"""

import hashlib as hashlib  # before anything that hashes: see leftoff.model.codec
