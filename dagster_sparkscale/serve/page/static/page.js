// The live part of a page: draws its charts, and asks for what has changed when it is told to.
// All text comes from the server, where it is escaped; nothing is loaded from elsewhere.
"use strict";

(() => {
  const body = document.body;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const HIGH = 180;
  const POLL = 30000;
  const plots = new Map();
  let drawn = null;

  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const clock = (seconds) =>
    seconds == null ? "" : new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " ");

  // A day where one begins, else a time of day.
  const tick = (seconds, step) => {
    const text = clock(seconds);
    return step >= 86400 || seconds % 86400 === 0 ? text.slice(5, 10) : text.slice(11);
  };

  const short = (value) => {
    if (value == null) return "-";
    if (Math.abs(value) >= 100) return Math.round(value).toLocaleString("en");
    return String(Number(value.toPrecision(3)));
  };

  const brief = (value) => {
    const size = Math.abs(value);
    if (size >= 1e6) return `${short(value / 1e6)}M`;
    return size >= 1e4 ? `${short(value / 1e3)}k` : short(value);
  };

  // Uprights at what was done to the stream.
  const marks = {
    hooks: {
      draw: (plot) => {
        const ctx = plot.ctx;
        const { left, top, width, height } = plot.bbox;
        ctx.save();
        ctx.lineWidth = devicePixelRatio;
        for (const mark of drawn.marks) {
          const x = Math.round(plot.valToPos(mark.at, "x", true));
          if (x < left || x > left + width) continue;
          const kind = mark.kind === "rescale" || mark.kind === "person" ? mark.kind : "other";
          ctx.strokeStyle = color(`--mark-${kind}`);
          ctx.setLineDash(kind === "other" ? [2, 4] : []);
          ctx.globalAlpha = 0.7;
          ctx.beginPath();
          ctx.moveTo(x, top);
          ctx.lineTo(x, top + height);
          ctx.stroke();
        }
        ctx.restore();
      },
    },
  };

  const curve = (series, place) => {
    const stroke = color(`--c${series.color}`);
    const look = { label: series.label, stroke, width: 1.5, spanGaps: false };
    // A dash is what is not known at a moment; while none is pointed at, there is nothing to say.
    look.value = (_, value, __, at) => (at == null ? "" : short(value));
    look.points = { show: series.look === "points", size: 7, fill: stroke };
    if (series.look === "under") Object.assign(look, { width: 6, stroke: `${stroke}70` });
    if (series.look === "step" || series.look === "under") look.paths = uPlot.paths.stepped({ align: 1 });
    if (series.look === "points") look.paths = () => null;
    if (series.look === "dashed") look.dash = [6, 4];
    // A measured moment between two gaps has no line: it is seen as a point.
    if (series.look === "line" || series.look === "step") {
      look.points = { show: true, size: 4, fill: stroke, filter: (plot, at) => alone(plot, at) };
    }
    return look;
  };

  const alone = (plot, place) => {
    const values = plot.data[place];
    const found = [];
    for (let i = 0; i < values.length; i++) {
      if (values[i] != null && values[i - 1] == null && values[i + 1] == null) found.push(i);
    }
    return found;
  };

  const options = (chart, wide) => {
    const line = { stroke: color("--quiet"), grid: { stroke: color("--grid"), width: 1 } };
    line.ticks = { stroke: color("--grid"), width: 1 };
    return {
      width: wide,
      height: HIGH,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      cursor: { sync: { key: "page" }, drag: { x: true, y: false } },
      scales: {
        x: { time: true, range: (_, least, most) => [least, most] },
        y: { range: (_, least, most) => [Math.min(0, least ?? 0), (most > 0 ? most : 1) * 1.08] },
      },
      axes: [
        { ...line, space: 60, values: (_, at, __, ___, step) => at.map((one) => tick(one, step)) },
        { ...line, size: 52, values: (_, values) => values.map(brief) },
      ],
      series: [
        { label: "UTC", value: (_, value) => clock(value) || "" },
        ...chart.series.map(curve),
      ],
      plugins: [marks],
      hooks: {
        setLegend: [
          (plot) => plot.root.querySelector(".u-legend").classList.toggle("rests", plot.cursor.idx == null),
        ],
      },
    };
  };

  const columns = (chart) => [drawn.times, ...chart.series.map((each) => each.values)];
  const shape = (chart) => chart.series.map((each) => `${each.label}/${each.look}`).join("|");

  const draw = (anew) => {
    for (const chart of drawn.charts) {
      const place = document.querySelector(`[data-chart="${CSS.escape(chart.key)}"]`);
      if (!place) continue;
      const known = plots.get(chart.key);
      if (known && !anew && known.shape === shape(chart)) {
        // Where somebody has zoomed in, it stays so.
        known.plot.setData(columns(chart), false);
        if (!known.zoomed()) whole(known.plot);
        else known.plot.redraw();
        continue;
      }
      if (known) known.plot.destroy();
      const plot = new uPlot(options(chart, place.clientWidth), columns(chart), place);
      whole(plot);
      const made = { plot, shape: shape(chart), place, range: null };
      made.zoomed = () => {
        const { min, max } = plot.scales.x;
        return Math.abs(min - plot.whole[0]) > 1 || Math.abs(max - plot.whole[1]) > 1;
      };
      plot.over.addEventListener("dblclick", () => setTimeout(() => whole(plot), 0));
      plots.set(chart.key, made);
    }
  };

  // The whole time that was asked for, also where nothing was measured at its begin or end.
  const whole = (plot) => {
    plot.whole = [drawn.since, drawn.until];
    plot.setScale("x", { min: drawn.since, max: drawn.until });
  };

  const say = (chart, at) => {
    const values = chart.series.map((each) => `${each.label} ${short(each.values[at])}`);
    document.getElementById("at").textContent = `${clock(drawn.times[at])} UTC: ${values.join(", ")}`;
  };

  const onKey = (event) => {
    const place = event.target.closest?.("[data-chart]");
    const known = place && plots.get(place.dataset.chart);
    if (!known || event.target !== place) return;
    const times = drawn.times;
    const last = times.length - 1;
    const now = known.plot.cursor.idx ?? last + 1;
    const to = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: last }[event.key];
    if (event.key === "Escape") {
      known.plot.setCursor({ left: -10, top: -10 });
      document.getElementById("at").textContent = "";
    } else if (to !== undefined && last >= 0) {
      event.preventDefault();
      const at = Math.max(0, Math.min(last, to));
      known.plot.setCursor({ left: known.plot.valToPos(times[at], "x"), top: 10 });
      const chart = drawn.charts.find((each) => each.key === place.dataset.chart);
      say(chart, at);
    }
  };

  const resize = () => {
    for (const { plot, place } of plots.values()) {
      if (place.clientWidth && place.clientWidth !== plot.width) {
        plot.setSize({ width: place.clientWidth, height: HIGH });
      }
    }
  };

  const put = (parts) => {
    for (const [id, html] of Object.entries(parts)) {
      const place = document.getElementById(id);
      // What somebody is reading by keyboard or has selected is not taken away.
      if (!place || place.shown === html) continue;
      if (place.contains(document.activeElement) && place !== document.activeElement) continue;
      if (place.contains(getSelection()?.anchorNode) && !getSelection().isCollapsed) continue;
      place.innerHTML = html;
      place.shown = html;
    }
  };

  const connection = (text) => {
    const place = document.getElementById("connection");
    if (place && place.textContent !== text) place.textContent = text;
  };

  let asking = false;
  const refresh = async () => {
    if (asking || document.hidden) return;
    asking = true;
    try {
      const answer = await fetch(body.dataset.parts, { cache: "no-store" });
      if (answer.status === 401) {
        location.reload();
        return;
      }
      if (!answer.ok) {
        connection(`Not live: the server answered ${answer.status}`);
        return;
      }
      const told = await answer.json();
      put(told.parts);
      if (told.charts) {
        const before = drawn.charts.map((each) => each.key).join();
        drawn = told.charts;
        // Another chart has a place of its own: the page is built anew by the server.
        if (drawn.charts.map((each) => each.key).join() !== before) location.reload();
        else draw(false);
      }
      connection(`Live: last changed ${clock(Date.now() / 1000)} UTC`);
    } catch {
      connection("Not live: the server does not answer; trying again");
    } finally {
      asking = false;
    }
  };

  const follow = () => {
    let source = null;
    let first = true;
    const listen = () => {
      source = new EventSource(body.dataset.live);
      source.addEventListener("look", () => {
        // The page is of the first look itself.
        if (first) connection("Live");
        else refresh();
        first = false;
      });
      source.addEventListener("busy", (event) => connection(`Waiting: ${JSON.parse(event.data)}`));
      source.addEventListener("end", () => connection("Not live: the server has ended"));
      source.addEventListener("error", () => {
        first = false;
        connection("Not live: trying again");
        // Refused, as too many pages are live: this one asks from time to time, and tries again.
        if (source.readyState === EventSource.CLOSED) {
          connection("Asks again every 30 s");
          setTimeout(() => {
            refresh();
            listen();
          }, POLL);
        }
      });
    };
    addEventListener("pagehide", () => source.close());
    document.addEventListener("visibilitychange", refresh);
    listen();
  };

  const data = document.getElementById("charts");
  if (data) {
    drawn = JSON.parse(data.textContent);
    draw(true);
    document.addEventListener("keydown", onKey);
    dark.addEventListener("change", () => draw(true));
    addEventListener("resize", resize);
    new ResizeObserver(resize).observe(body);
  }
  if (body.dataset.live) follow();
})();
