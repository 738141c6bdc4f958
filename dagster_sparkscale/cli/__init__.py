"""The command `sparkscale`: a module for each of its commands, or for a few that are alike."""
