"""Where the data of a task is: in a folder, in the bundled small world, or on the hub."""
