// Draws one of the answers that scripts/docs_try.py had from the twin when the guide was built; decides nothing.
(() => {
  const told = window.numawareTry;
  const place = document.getElementById("try");
  if (!told || !place) return;
  const chosen = { policy: "restricted", before: 1, cpus: 12, gpus: 1 };
  const SHADES = { free: "#8883", others: "#94a3b8", ours: "#2563eb", reserved: "#d97706" };

  const field = (label, input) => {
    const row = document.createElement("label");
    row.style.cssText = "display:inline-flex;gap:.5em;align-items:center;margin:0 1.2em .6em 0";
    row.append(label, input);
    return row;
  };
  const choice = (name, options) => {
    const input = document.createElement("select");
    input.style.cssText = "border:1px solid;border-radius:4px;padding:.1em .3em;background:inherit;color:inherit";
    options.forEach(([value, words]) => input.add(new Option(words, value, false, value == chosen[name])));
    input.oninput = () => { chosen[name] = input.value; draw(); };
    return input;
  };
  const slider = (name, least, most) => {
    const input = Object.assign(document.createElement("input"), { type: "range", min: least, max: most, value: chosen[name] });
    const shown = document.createElement("output");
    shown.style.minWidth = "1.6em";
    input.oninput = () => { chosen[name] = input.value; draw(); };
    const both = document.createElement("span");
    both.append(input, " ", shown);
    shown.id = `try-${name}`;
    return both;
  };

  const box = (x, y, size, state, words) =>
    `<rect x="${x}" y="${y}" width="${size}" height="20" rx="3" fill="${SHADES[state]}"><title>${words}: ${state}</title></rect>` +
    `<text x="${x + size / 2}" y="${y + 14}" text-anchor="middle" font-size="9" fill="${state === "free" ? "currentColor" : "#fff"}">${words}</text>`;
  const node = (number, [cpus, gpus], [mineCpus, mineGpus]) => {
    const y = number * 36 - 14;
    const state = (one, others, mine) => (mine.includes(one) ? "ours" : others.includes(one) ? "others" : "free");
    const cells = told.nodes[number].map((cpu, index) =>
      box(70 + index * 30, y + 20, 26, told.reserved.includes(cpu) ? "reserved" : state(cpu, cpus, mineCpus), cpu));
    const devices = told.gpus[number].map((gpu, index) =>
      box(510 + index * 62, y + 20, 56, state(gpu, gpus, mineGpus), `GPU ${gpu}`));
    return `<text x="0" y="${y + 34}" font-size="12" fill="currentColor">NUMA ${number}</text>${cells.join("")}${devices.join("")}`;
  };

  const picture = document.createElement("div");
  const words = document.createElement("pre");
  const verdict = document.createElement("p");
  picture.style.overflowX = "auto";
  words.style.whiteSpace = "pre-wrap";
  verdict.setAttribute("role", "status");

  function draw() {
    const { policy, before, cpus, gpus } = chosen;
    const [admitted, text, others, mine] = told.answers[`${policy}/${before}/${cpus}/${gpus}`];
    document.getElementById("try-cpus").textContent = cpus;
    document.getElementById("try-gpus").textContent = gpus;
    picture.innerHTML = `<svg viewBox="0 0 640 68" width="640" role="img" aria-label="Who has which CPU and GPU">` +
      `${node(0, others, mine)}${node(1, others, mine)}</svg>`;
    verdict.innerHTML = `<strong>${admitted ? "✓ admitted" : "✗ refused"}</strong>`;
    words.textContent = text;
  }

  place.replaceChildren(
    field("policy", choice("policy", told.policies.map((one) => [one, one]))),
    field("on the machine before", choice("before", told.before.map((one, index) => [index, one]))),
    field("CPUs", slider("cpus", 1, 28)),
    field("GPUs", slider("gpus", 0, 3)),
    picture, verdict, words,
  );
  draw();
})();
