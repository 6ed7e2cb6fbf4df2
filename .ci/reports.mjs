// Opens reports in headless Chromium, at three widths and in both colour schemes: `node reports.mjs CHROMIUM PAGE.html…`. Fails if anything overflows,
// lies upon a label, can hardly be read, or is an error on the console. A table may be scrolled, except on a phone. With `SHOTS=FOLDER`, also saves a
// picture of each first screen, and with `WHOLE` of each whole page.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const WIDTHS = [[1440, 900], [800, 1000], [390, 844]];
const SCHEMES = ["light", "dark"];

// Runs in a page whose window has this size. Returns what is wrong. `innerWidth` is no measure: a phone zooms out of a page that is too wide.
function faults(width, height) {
  const found = [], told = element => {
    const name = element.tagName.toLowerCase() + (element.className.baseVal ?? element.className ? "." + (element.className.baseVal ?? element.className) : "");
    return `<${name}> ${JSON.stringify(element.textContent.trim().slice(0, 50))}`;
  };
  const answer = document.querySelector(".answer"), picture = document.querySelector("figure");
  if (!answer?.textContent.trim() || !picture) found.push("no answer, or no picture of it");
  else {
    const from = answer.getBoundingClientRect(), to = picture.getBoundingClientRect();
    if (from.bottom > height) found.push("the answer does not end on the first screen");
    if (to.top > height * 0.75) found.push("the picture is not on the first screen");
    if (width > 1000 && to.bottom > height) found.push("the picture does not end on the first screen");
  }
  for (const element of document.querySelectorAll("details")) element.open = true;
  const page = document.scrollingElement;
  if (page.scrollWidth > width) found.push(`the page is ${page.scrollWidth} pixels wide`);
  const colors = new Map();
  const FIGURE = /\d[\d.]*(\s\d{3})*(\s(ns|µs|ms|s|%|times|threads?|files))?\b/g;
  const light = ([r, g, b]) => {
    const part = value => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b) + 0.05;
  };
  const parsed = color => color.match(/[\d.]+/g).map(Number);
  const ground = element => {
    for (; element; element = element.parentElement) {
      const color = getComputedStyle(element).backgroundColor;
      if ((parsed(color)[3] ?? 1) > 0) return color;
    }
    return "rgb(255, 255, 255)";
  };
  for (const element of document.body.querySelectorAll("*")) {
    const box = element.getBoundingClientRect();
    if (!box.width || !box.height || element.closest("script, style")) continue;
    // A wide table can be scrolled, but not on a phone.
    const scrolls = width >= 600 && element.closest(".scroll");
    if ((box.right > width + 1 || box.left < -1) && (!scrolls || element === scrolls)) found.push(`beyond the edge: ${told(element)}`);
    if (element.clientWidth && element.scrollWidth > element.clientWidth + 1 && !element.ownerSVGElement && element !== scrolls)
      found.push(`${element.scrollWidth - element.clientWidth} pixels too narrow: ${told(element)}`);
    if (![...element.childNodes].some(it => it.nodeType === 3 && it.data.trim())) continue;
    if (!element.closest("code, pre, svg")) for (const node of element.childNodes) for (const figure of node.data?.matchAll(FIGURE) ?? []) {
      const range = document.createRange();
      range.setStart(node, figure.index);
      range.setEnd(node, figure.index + figure[0].length);
      const lines = new Set([...range.getClientRects()].map(it => Math.round(it.top)));
      if (lines.size > 1) found.push(`broken across lines: ${figure[0]} in ${told(element)}`);
    }
    const style = getComputedStyle(element);
    const pair = `${element.ownerSVGElement ? style.fill : style.color} on ${ground(element)}`;
    if (!colors.has(pair)) colors.set(pair, element);
  }
  for (const [pair, element] of colors) {
    const [a, b] = pair.split(" on ").map(it => light(parsed(it)));
    const contrast = Math.max(a, b) / Math.min(a, b);
    if (contrast < 4.5) found.push(`contrast ${contrast.toFixed(1)}, ${pair}: ${told(element)}`);
  }
  for (const drawing of document.querySelectorAll("svg, .bars")) {
    const texts = [...drawing.querySelectorAll("text, span, .ticks b")].filter(it => it.textContent.trim());
    const boxes = texts.map(it => it.getBoundingClientRect());
    for (let i = 0; i < boxes.length; i++) for (let j = 0; j < i; j++) {
      const [a, b] = [boxes[i], boxes[j]];
      const common = Math.min(a.right, b.right) - Math.max(a.left, b.left), high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (common > 1 && high > 2 && !texts[i].contains(texts[j]) && !texts[j].contains(texts[i])) found.push(`one upon another: ${told(texts[i])}, ${told(texts[j])}`);
    }
  }
  return found;
}

// A browser, spoken to through a pipe: a message ends with a zero byte.
class Browser {
  constructor(program) {
    this.folder = mkdtempSync(join(tmpdir(), "reports-"));
    const flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--remote-debugging-pipe", `--user-data-dir=${this.folder}`];
    this.child = spawn(program, flags, { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
    this.ended = new Promise(done => this.child.on("exit", done));
    this.calls = new Map();
    this.number = 0;
    this.listen = () => {};
    let rest = "";
    this.child.stdio[4].setEncoding("utf8").on("data", text => {
      const messages = (rest + text).split("\0");
      rest = messages.pop();
      for (const message of messages.map(it => JSON.parse(it))) {
        if (message.id === undefined) this.listen(message);
        else {
          const { done, fail } = this.calls.get(message.id);
          message.error ? fail(new Error(message.error.message)) : done(message.result);
        }
      }
    });
    const lost = why => this.calls.forEach(call => call.fail(new Error(`Chromium ended: ${why}`)));
    this.child.on("exit", lost).on("error", lost);
  }
  call(method, params = {}) {
    const id = ++this.number;
    this.child.stdio[3].write(JSON.stringify({ id, method, params, sessionId: this.session }) + "\0");
    return new Promise((done, fail) => this.calls.set(id, { done, fail }));
  }
  async open() {
    const { targetId } = await this.call("Target.createTarget", { url: "about:blank" });
    this.session = (await this.call("Target.attachToTarget", { targetId, flatten: true })).sessionId;
    for (const domain of ["Page", "Runtime", "Log"]) await this.call(`${domain}.enable`);
  }
  // Returns what is wrong with a page in a window of this size and scheme.
  async check(url, [width, height], scheme) {
    await this.call("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: width < 500 });
    await this.call("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: scheme }] });
    const errors = [];
    const loaded = new Promise(done => this.listen = ({ method, params }) => {
      if (method === "Page.loadEventFired") done();
      if (method === "Runtime.exceptionThrown") errors.push(`error: ${params.exceptionDetails.exception?.description ?? params.exceptionDetails.text}`);
      if (method === "Runtime.consoleAPICalled" && ["error", "warning"].includes(params.type)) errors.push(`console: ${params.args.map(it => it.value).join(" ")}`);
      if (method === "Log.entryAdded" && params.entry.level === "error") errors.push(`log: ${params.entry.text}`);
    });
    await this.call("Page.navigate", { url });
    await loaded;
    const { result, exceptionDetails } = await this.call("Runtime.evaluate", { expression: `(${faults})(${width}, ${height})`, returnByValue: true });
    if (exceptionDetails) throw new Error(exceptionDetails.exception.description);
    return [...errors, ...result.value];
  }
  async shoot(path, whole) {
    const { data } = await this.call("Page.captureScreenshot", { captureBeyondViewport: whole });
    writeFileSync(path, Buffer.from(data, "base64"));
  }
  async close() {
    this.child.kill();
    await this.ended;
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

// Pages that are wrong, and what must be found. The last one is well.
const ANSWER = '<meta name="viewport" content="width=device-width"><body style="margin:0"><p class="answer">a<figure>b</figure>';
const SAMPLES = [
  [`${ANSWER}<p style="width:2000px">x</p>`, "pixels wide"],
  [`${ANSWER}<div style="position:relative"><p style="position:absolute;left:-50px">x</p></div>`, "beyond the edge"],
  [`${ANSWER}<div style="overflow:auto;width:50px"><p style="width:90px">x</p></div>`, "pixels too narrow"],
  [`${ANSWER}<div class="scroll" style="overflow:auto;width:50px"><p style="width:90px">x</p></div>`, "pixels too narrow"],
  [`${ANSWER}<script>console.error("x")</script>`, "console: x"],
  [`${ANSWER}<script>undefined.x</script>`, "error: TypeError"],
  [`${ANSWER}<p style="color:#999;background:#fff">x`, "contrast 2.8"],
  [`${ANSWER}<svg><text y="20">one</text><text y="22">two</text></svg>`, "one upon another"],
  [`${ANSWER}<p style="width:4em">1 234 567 890`, "broken across lines"],
  [`${ANSWER}<table><td style="white-space:nowrap">${"x".repeat(70)}`, "beyond the edge"],
  [ANSWER.replace(/<meta[^>]*>/, ""), "pixels wide"],
  ["<p>x", "no answer"],
  [`<div style="height:2000px"></div>${ANSWER}`, "first screen"],
  [ANSWER, ""],
];

const [program, ...pages] = process.argv.slice(2);
const browser = new Browser(program);
let failed = 0;
try {
  await browser.open();
  for (const [html, wanted] of SAMPLES) {
    const found = await browser.check(`data:text/html,${encodeURIComponent(html)}`, WIDTHS[2], "light");
    if (wanted ? !found.some(it => it.includes(wanted)) : found.length) throw new Error(`the check itself: wanted ${JSON.stringify(wanted)}, found ${JSON.stringify(found)}`);
  }
  for (const page of pages) for (const size of WIDTHS) for (const scheme of SCHEMES) {
    const found = await browser.check(pathToFileURL(resolve(page)).href, size, scheme);
    const name = `${basename(page, ".html")}-${size[0]}-${scheme}`;
    if (found.length) {
      failed++;
      console.log(`${name}: ${found.length} faults\n  ${found.slice(0, 8).join("\n  ")}`);
    }
    if (process.env.SHOTS) {
      await browser.shoot(join(process.env.SHOTS, `${name}.png`), false);
      if (process.env.WHOLE) await browser.shoot(join(process.env.SHOTS, `${name}-whole.png`), true);
    }
  }
} finally {
  await browser.close();
}
console.log(`${pages.length} reports at ${WIDTHS.length} widths and in ${SCHEMES.length} schemes: ${failed} of ${pages.length * WIDTHS.length * SCHEMES.length} have faults`);
process.exitCode = failed || !pages.length ? 1 : 0;
