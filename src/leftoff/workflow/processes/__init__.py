"""The processes of steps: started so that nobody's death loses one, and followed whoever started them.

Three kinds of process take part. The **driver** (``client``) says what is to run and when. The **launcher** is one
small process per driver that does nothing but fork. The **shim**, forked by it, is the leader of a session of its own,
waits until the driver has recorded the attempt, runs the command in its own process group, and writes the exit code
down whether or not anybody is left to hear of it.

Driver and shim share a socket pair, the channel, that the launcher only passes on. All that must not race is left to
it: what was written to it is read even if the writer died, and its end is seen as soon as the other side is gone. So a
shim runs its command if, and only if, the driver's one byte was written, and the driver sees the death of a shim
without being its parent.

What belongs to an attempt is the session of its shim: the process group named by the shim's pid, and the groups that
``timeout``, job control and the like make inside. Only a process that calls ``setsid`` leaves it.

A shim whose command ended in order, with nobody left in its session, takes the next job of the same driver: a fork of
Python costs more than all the rest. So two attempts may have the same process, but never at the same time: the first
one's ``exit`` is on the disk before the shim says that it is free.
"""
