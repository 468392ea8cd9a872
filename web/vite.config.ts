import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

// The page is one script and one sheet, built into the Python package and committed there.
export default defineConfig({
  plugins: [svelte()],
  build: {
    outDir: "../src/numaware/serve/console/static",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
  },
  server: { proxy: { "/api": "http://127.0.0.1:8080", "/rest": "http://127.0.0.1:8080" } },
});
