"""The Python API: ``flow``, ``chain`` and ``parallel`` describe a process, which the engine runs like one of a file.

``builder`` is what one writes, ``terms`` are results that are not there yet, and ``compiling`` makes a definition.
"""
