"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const W = 480, H = 300, LEFT = 54, RIGHT = 26, TOP = 12, BOTTOM = 40;
  const NS = "http://www.w3.org/2000/svg";
  const hidden = new Set();
  let logarithmic = false;
  const styles = new Map(data.series.map((s) => [s.name, s]));

  function node(name, attributes, parent, text) {
    const made = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    if (parent) parent.appendChild(made);
    return made;
  }

  function spelled(value, plot) {
    if (plot.percent) return (100 * value).toFixed(1) + " %";
    if (value > 0 && value < 0.01) return "<0.01";
    return value.toLocaleString("en-US", { maximumFractionDigits: value < 10 ? 2 : 0 });
  }

  function short(value, plot) {
    if (plot.percent) return Math.round(100 * value) + " %";
    if (value >= 1e6) return +(value / 1e6).toPrecision(3) + "M";
    if (value >= 1e4) return +(value / 1e3).toPrecision(3) + "k";
    return (+value.toPrecision(3)).toLocaleString("en-US");
  }

  function niceTop(value) {
    if (!(value > 0)) return 1;
    const power = 10 ** Math.floor(Math.log10(value));
    return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((m) => m * power >= value) * power;
  }

  function scales(plot, lines) {
    const xs = plot.xs.map((x) => (plot.log ? Math.log(x) : x));
    const spread = xs[xs.length - 1] - xs[0] || 1;
    const x = (at) => LEFT + ((xs[at] - xs[0]) / spread) * (W - LEFT - RIGHT);
    const values = lines.flatMap((line) => line.ys.filter((v) => v !== null));
    const most = plot.percent ? 1 : niceTop(Math.max(0, ...values));
    if (logarithmic) {
      const positive = values.filter((v) => v >= (plot.percent ? 1e-4 : 0.5));
      const low = Math.floor(Math.log10(Math.min(most / 10, ...positive)));
      const high = Math.max(low + 1, Math.ceil(Math.log10(most)));
      const ticks = [];
      for (let power = low; power <= high; power++) ticks.push(10 ** power);
      const y = (v) => {
        const part = (Math.log10(Math.max(v, 10 ** low)) - low) / (high - low);
        return H - BOTTOM - part * (H - TOP - BOTTOM);
      };
      return { x, y, ticks };
    }
    const y = (v) => H - BOTTOM - (v / most) * (H - TOP - BOTTOM);
    return { x, y, ticks: [0, 1, 2, 3, 4].map((k) => (most * k) / 4) };
  }

  function draw(plot) {
    const holder = document.getElementById("plot-" + plot.id);
    holder.replaceChildren();
    const lines = plot.lines.filter((line) => !hidden.has(line.name));
    const { x, y, ticks } = scales(plot, lines);
    const svg = node("svg", { viewBox: `0 0 ${W} ${H}`, role: "img",
      "aria-labelledby": `title-${plot.id}` }, holder);
    node("title", { id: `title-${plot.id}` }, svg, plot.title + "; the numbers follow as a table");
    for (const tick of ticks) {
      node("line", { class: "grid", x1: LEFT, x2: W - RIGHT, y1: y(tick), y2: y(tick) }, svg);
      node("text", { x: LEFT - 7, y: y(tick) + 4, "text-anchor": "end", class: "y-tick" }, svg,
        short(tick, plot));
    }
    plot.xs.forEach((_, at) => {
      node("text", { x: x(at), y: H - BOTTOM + 18, "text-anchor": "middle" }, svg, plot.labels[at]);
    });
    node("line", { class: "axis", x1: LEFT, x2: W - RIGHT, y1: H - BOTTOM, y2: H - BOTTOM }, svg);
    node("text", { x: (LEFT + W - RIGHT) / 2, y: H - 5, "text-anchor": "middle" }, svg, plot.x);
    if (plot.mark !== null) {
      node("line", { class: "mark", x1: x(plot.mark), x2: x(plot.mark), y1: TOP, y2: H - BOTTOM },
        svg);
    }
    const guide = node("line", { class: "guide", y1: TOP, y2: H - BOTTOM }, svg);
    for (const line of lines) {
      const style = styles.get(line.name);
      const there = line.ys.map((v, at) => [at, v]).filter(([, v]) => v !== null);
      const path = there.map(([at, v], k) => `${k ? "L" : "M"}${x(at).toFixed(1)},${y(v).toFixed(1)}`);
      const drawn = { d: path.join(""), "data-series": line.name, stroke: `var(--s${style.color})` };
      if (style.dash) drawn["stroke-dasharray"] = style.dash;
      if (style.planned) drawn.class = "planned";
      node("path", drawn, svg);
      for (const [at, v] of there) {
        node("circle", { cx: x(at), cy: y(v), r: style.planned ? 3.6 : 2.4,
          fill: `var(--s${style.color})` }, svg);
      }
    }
    listen(plot, holder, svg, guide, lines, x);
  }

  function listen(plot, holder, svg, guide, lines, x) {
    const tip = document.createElement("div");
    tip.className = "tip";
    holder.appendChild(tip);
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const here = ((event.clientX - box.left) / box.width) * W;
      let at = 0;
      plot.xs.forEach((_, k) => { if (Math.abs(x(k) - here) < Math.abs(x(at) - here)) at = k; });
      guide.setAttribute("x1", x(at));
      guide.setAttribute("x2", x(at));
      guide.style.visibility = "visible";
      tip.replaceChildren();
      const head = document.createElement("b");
      head.textContent = `${plot.x}: ${plot.labels[at]}`;
      tip.appendChild(head);
      const rows = lines.filter((line) => line.ys[at] !== null);
      rows.sort((a, b) => b.ys[at] - a.ys[at]);
      for (const line of rows) {
        const row = document.createElement("span"), name = document.createElement("i");
        name.textContent = line.name;
        name.style.color = `var(--s${styles.get(line.name).color})`;
        row.append(name, spelled(line.ys[at], plot));
        tip.appendChild(row);
      }
      const frame = holder.parentElement.getBoundingClientRect();
      const place = box.left - frame.left + (x(at) / W) * box.width;
      tip.style.visibility = "visible";
      const right = place + tip.offsetWidth + 14 > frame.width;
      tip.style.left = `${Math.max(4, right ? place - tip.offsetWidth - 10 : place + 10)}px`;
      tip.style.top = `${box.top - frame.top + 6}px`;
    });
    svg.addEventListener("pointerleave", () => {
      tip.style.visibility = guide.style.visibility = "hidden";
    });
  }

  function drawAll() {
    data.plots.forEach(draw);
    for (const row of document.querySelectorAll("tr[data-series]")) {
      row.hidden = hidden.has(row.dataset.series);
    }
  }

  function button(label, pressed, change) {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = label;
    made.setAttribute("aria-pressed", pressed);
    made.addEventListener("click", () => { change(made); drawAll(); });
    document.getElementById("controls").appendChild(made);
    return made;
  }

  for (const series of data.series) {
    const made = button(series.name, "true", (self) => {
      if (!hidden.delete(series.name)) hidden.add(series.name);
      self.setAttribute("aria-pressed", String(!hidden.has(series.name)));
    });
    made.dataset.series = series.name;
    made.title = `Show or hide ${series.name}`;
    const swatch = node("svg", { viewBox: "0 0 22 8", "aria-hidden": "true" });
    node("line", { x1: 0, x2: 22, y1: 4, y2: 4, "stroke-width": 3,
      stroke: `var(--s${series.color})`, "stroke-dasharray": series.dash || "none" }, swatch);
    made.prepend(swatch);
  }
  const scale = button("logarithmic scale", "false", (self) => {
    logarithmic = !logarithmic;
    self.setAttribute("aria-pressed", String(logarithmic));
  });
  scale.className = "scale";
  scale.id = "scale";
  drawAll();
})();
