"""Archives of loaded classes, which make JVMs start sooner."""
