"""The commands of ``fairseq-gmlm``, one module each: ``HELP``, ``add_arguments`` and ``run``."""
