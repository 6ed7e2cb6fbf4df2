// Runs the program of a Rust test without any import, as `cargo test` does on other targets: `node wasm.mjs PROGRAM.wasm`.
import { readFileSync } from "node:fs";

const { instance } = await WebAssembly.instantiate(readFileSync(process.argv[2]), {});
const code = instance.exports.main(0, 0);
console.log(`${process.argv[2]}: ${code === 0 ? "passed" : `exit status ${code}`}`);
process.exit(code);
