"""The errors that are the user's to mend; the command line prints them as one message, without a traceback."""


class ConfigError(ValueError):
    """A configuration key, value or argument is wrong: says where, what was expected, what was got, what to do."""


class DataError(ValueError):
    """A file is missing, damaged or does not fit another: says which, where, expected, got, and what to do."""
