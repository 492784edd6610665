"""Files, processes, devices and errors: what every stage needs of the machine."""
