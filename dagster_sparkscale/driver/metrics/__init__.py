"""What Prometheus may scrape of a driver: names, values and the text that it reads."""
