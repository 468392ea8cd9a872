import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig, type Plugin } from "vite";

const SOURCES = ["index.html", "package-lock.json", "package.json", "public", "src", "svelte.config.js", "tsconfig.json", "vite.config.ts"];

function files(path: string): string[] {
  return statSync(path).isDirectory() ? readdirSync(path).flatMap((name) => files(join(path, name))) : [path];
}

/** Writes down what the page was built from, so that a test without Node.js can tell a page that is out of date. */
function source(): Plugin {
  return {
    name: "source",
    generateBundle() {
      const hash = createHash("sha256");
      for (const path of SOURCES.flatMap(files).sort()) {
        hash.update(`${path}\n`);
        hash.update(readFileSync(path));
      }
      this.emitFile({ type: "asset", fileName: "source.sha256", source: `${hash.digest("hex")}\n` });
    },
  };
}

// The page is one script and one sheet, built into the Python package and committed there.
export default defineConfig({
  plugins: [svelte(), source()],
  build: {
    outDir: process.env.OUT_DIR ?? "../src/numaware/serve/console/static",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    modulePreload: { polyfill: false },
  },
  server: { proxy: { "/api": "http://127.0.0.1:8080", "/rest": "http://127.0.0.1:8080" } },
});
