/** Translation of a text file, in parts of whole lines, with progress and download. The browser sends only its lines. */

import * as api from "./api.js";
import { plain } from "./dom.js";

const get = (id) => document.getElementById(id);
const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
const [REFUSED, LISTED] = [3, 30]; // refused lines that are named with the reason, and with their number
let running = null;

/** Let the user choose a file; `model` gives the model that translates it. */
export function offer(model, limits) {
  get("file").addEventListener("change", async () => {
    const [file] = get("file").files;
    if (file) await run(file, model(), limits);
    get("file").value = "";
  });
  get("upload-stop").addEventListener("click", () => running?.abort());
}

async function run(file, model, limits) {
  running?.abort();
  const { signal } = (running = new AbortController());
  const [note, bar, result] = ["upload-note", "upload-bar", "upload-result"].map(get);
  get("upload").hidden = false;
  get("upload-stop").hidden = bar.hidden = false;
  result.hidden = true;
  let lines = [];
  const [done, refused] = [[], []]; // the lines translated so far; [number, message] of those that the server refused
  const show = () => {
    bar.value = done.length / lines.length;
    note.textContent = `${file.name}: ${done.length.toLocaleString("en")} of ${lines.length.toLocaleString("en")} lines`;
  };
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    lines = plain(text).replace(/\n$/, "").split("\n");
    show();
    for (const part of parts(lines, limits)) {
      done.push(...(await translate(model, part, done.length + 1, refused, signal)));
      if (running.signal === signal) show();
    }
  } catch (error) {
    if (running.signal !== signal) return; // another file has taken its place
    const reason = signal.aborted ? "stopped" : error instanceof TypeError ? "expected UTF-8 text" : error.message;
    note.textContent = done.length ? `${note.textContent}. Then: ${reason}` : `${file.name}: ${reason}`;
  }
  if (running.signal !== signal) return;
  get("upload-stop").hidden = bar.hidden = true;
  if (!done.length) return;
  if (refused.length) note.textContent += `. ${told(refused)}`;
  URL.revokeObjectURL(result.href);
  result.href = URL.createObjectURL(new Blob([done.join("\n") + "\n"], { type: "text/plain" }));
  result.download = `${file.name.replace(/\.txt$/, "")}.${model.target}.txt`;
  result.textContent = done.length < lines.length ? "Download the lines so far" : "Download the translation";
  result.hidden = false;
}

/** Say which lines the server refused. */
function told(refused) {
  const [which, are] = refused.length > 1 ? [`${refused.length} lines`, "are"] : ["1 line", "is"];
  const named = refused.slice(0, REFUSED).map(([number, message]) => `Line ${number}: ${message}`);
  const rest = refused.slice(REFUSED, LISTED).map(([number]) => number).join(", ");
  const more = refused.length > LISTED ? ", …" : "";
  return `${which} ${are} left empty. ${named.join(" ")}${rest && ` Also ${rest}${more}`}`;
}

/** Group lines into parts within the server's limits of words and bytes; a longer line is a part alone. */
function parts(lines, limits) {
  const encoder = new TextEncoder();
  const found = [];
  let [words, bytes] = [Infinity, Infinity];
  for (const line of lines) {
    const size = [line.split(" ").filter(Boolean).length, encoder.encode(line).length + 1];
    [words, bytes] = [words + size[0], bytes + size[1]];
    if (words > limits.words || bytes > limits.bytes) {
      found.push([]);
      [words, bytes] = size;
    }
    found.at(-1).push(line);
  }
  return found;
}

/**
 * Translate lines, again while the server is busy, and by halves if it refuses them. A single line that it refuses is
 * noted in `refused` and stays empty. `first` is the number of the first line.
 */
async function translate(model, lines, first, refused, signal) {
  for (;;) {
    try {
      const { translations } = await api.translate({ ...api.asked(model), text: lines.join("\n"), nbest: 1 }, signal);
      return translations[0].text.split("\n");
    } catch (error) {
      if (signal.aborted) throw error;
      if (error.reason === "no words") return lines.map(() => "");
      if (error.retryAfter) {
        await pause(error.retryAfter);
      } else if (error.status !== 422) {
        throw error;
      } else if (lines.length === 1) {
        refused.push([first, error.message]);
        return [""];
      } else {
        const middle = Math.ceil(lines.length / 2);
        const before = await translate(model, lines.slice(0, middle), first, refused, signal);
        return [...before, ...(await translate(model, lines.slice(middle), first + middle, refused, signal))];
      }
    }
  }
}
