"""The operations: the single set of verbs that every face calls. A face that needs a new behaviour gets a new one."""
