"""The processes of steps. They survive the death of the driver, and any later driver can follow them.

Three kinds of process take part. The **driver** (``client``) decides what runs and when. The **launcher** is one small
process per driver that only forks. The **shim**, forked by it, leads its own session, waits until the driver has
recorded the attempt, runs the command in its own process group and records the exit, whether or not the driver lives.

Driver and shim share a socket pair, the channel. A message in it is read even if the sender has died, and its end is
seen as soon as the other side is gone. So a shim runs its command if, and only if, the driver's one byte was written,
and the driver sees the death of a shim without being its parent.

An attempt is the session of its shim: the process group with the shim's pid, and groups that ``timeout``, job control
and the like make inside. Only a process that calls ``setsid`` leaves it.

A shim whose command ended in order takes the next job of the same driver, because a fork of Python is expensive. Two
attempts may have the same process, but not at the same time: the ``exit`` of the first is written before the shim
reports that it is free.
"""
