"""Files, processes, devices and errors, which every stage uses."""
