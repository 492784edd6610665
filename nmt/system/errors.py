"""The errors that a user can fix; the command line prints them as one message, without a traceback."""


class ConfigError(ValueError):
    """A configuration key, value or argument is wrong; the message says where, expected, got, and what to do."""


class DataError(ValueError):
    """A file is missing, damaged or does not fit another; the message says which, where, expected, got, what to do."""
