"""What leftoff costs, against the peers people would otherwise use.

Every figure is a ratio taken in one sitting: short rounds of leftoff and of the peer alternate, each side
in a process of its own, and the median of the per-round ratios is what counts, so that a machine that
slows down halfway slows down both. Raw figures are printed beside the ratio, and the target it must meet.
"""
