// Print the versions of the packages that are named on standard input, as they are installed.
import { readFileSync } from "node:fs";

const names = JSON.parse(readFileSync(0, "utf8"));
const version = (name) =>
  JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url), "utf8")).version;
console.log(JSON.stringify(Object.fromEntries(names.map((name) => [name, version(name)]))));
