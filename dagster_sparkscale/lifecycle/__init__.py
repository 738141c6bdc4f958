"""Starting, restarting and stopping streams, by hand and after failures."""
