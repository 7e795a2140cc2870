"""One module per tool. Each uses the tool as its documentation does.

A module has `versions()` and

    drive(job)   start the pipeline, or continue it, and return when it is finished
    found(job)   the number of steps that the store records as finished
    grow(job)    `job.count` steps on a state of 100 KB, each of which changes one key of a hundred
    read(job)    the results of all steps, in order, as the tool's own API returns them
"""
