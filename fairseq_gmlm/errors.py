"""The one exception that means: the user can mend this."""


class UserError(ValueError):
    """Bad input, named: the option or file at fault, the value found, and what to do about it.

    Command-line entry points print it as one line and exit with status 2.
    """
