"""Watching streams: look, assess, examine, report; and the sensor that does it every minute."""
