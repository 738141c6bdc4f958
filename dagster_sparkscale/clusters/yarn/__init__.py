"""YARN: drivers in ApplicationMasters of their own."""
