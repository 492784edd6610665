/** Translation of a text file, in parts of whole lines, with progress and download. The browser sends only its lines. */

import * as api from "./api.js";
import { plain } from "./dom.js";

const get = (id) => document.getElementById(id);
const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
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
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    const lines = plain(text).replace(/\n$/, "").split("\n");
    const done = [];
    const show = () => {
      bar.value = done.length / lines.length;
      note.textContent = `${file.name}: ${done.length.toLocaleString("en")} of ${lines.length.toLocaleString("en")} lines`;
    };
    show();
    for (const part of parts(lines, limits)) {
      done.push(...(await translate(model.name, part, done.length + 1, signal)));
      if (running.signal === signal) show();
    }
    URL.revokeObjectURL(result.href);
    result.href = URL.createObjectURL(new Blob([done.join("\n") + "\n"], { type: "text/plain" }));
    result.download = `${file.name.replace(/\.txt$/, "")}.${model.target}.txt`;
    result.hidden = false;
  } catch (error) {
    if (running.signal !== signal) return; // another file has taken its place
    const reason = signal.aborted ? "stopped" : error instanceof TypeError ? "expected UTF-8 text" : error.message;
    note.textContent = `${file.name}: ${reason}`;
  } finally {
    if (running.signal === signal) get("upload-stop").hidden = bar.hidden = true;
  }
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

/** Translate lines, again while the server is busy, and by halves if it refuses them; `first` is the first one's number. */
async function translate(model, lines, first, signal) {
  for (;;) {
    try {
      const { translations } = await api.translate({ model, text: lines.join("\n"), nbest: 1 }, signal);
      return translations[0].text.split("\n");
    } catch (error) {
      if (signal.aborted) throw error;
      if (error.reason === "no words") return lines.map(() => "");
      if (error.retryAfter) {
        await pause(error.retryAfter);
      } else if (error.status !== 422) {
        throw error;
      } else if (lines.length === 1) {
        throw new Error(`line ${first}: ${error.message}`);
      } else {
        const middle = Math.ceil(lines.length / 2);
        const before = await translate(model, lines.slice(0, middle), first, signal);
        return [...before, ...(await translate(model, lines.slice(middle), first + middle, signal))];
      }
    }
  }
}
