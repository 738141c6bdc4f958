"""Who is told of what (docs/alerts.md): the team in its channel, and whoever is on call at night.

The addresses are secrets, so they are in the environment of the code location. Without one, nobody
is told by it.
"""

import os

import dagster as dg

from dagster_sparkscale import SlackWebhook, Webhook, alert_sensor

alerts = []

# The team's channel: every problem, and when it is over.
if "ALERTS_URL" in os.environ:
    alerts.append(alert_sensor(SlackWebhook(dg.EnvVar("ALERTS_URL"))))

# On call: only what can't wait until the morning, and not before it has lasted. A driver that has
# failed is restarted by itself.
if "PAGER_URL" in os.environ:
    alerts.append(
        alert_sensor(
            Webhook(dg.EnvVar("PAGER_URL")),
            name="pager",
            after={
                "unhealthy": "15 min",
                "lagging": "30 min",
                "failed": None,
                "pinned": None,
                "orphaned": None,
            },
        )
    )
