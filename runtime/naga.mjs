// SPIR-V modules to WGSL: a JSON list of base64 on standard input, a JSON list of {text} or {error} on standard output.
// The one argument is the folder of the package naga-wasm.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const { translate } = await import(pathToFileURL(`${process.argv[2]}/dist/node.js`).href);

function wgsl(code) {
  try {
    return { text: translate({ from: "spirv", to: "wgsl", source: new Uint8Array(Buffer.from(code, "base64")) }) };
  } catch (error) {
    return { error: error.formatted ?? String(error) };
  }
}

process.stdout.write(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map(wgsl)));
