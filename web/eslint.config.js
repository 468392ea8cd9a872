import js from "@eslint/js";
import svelte from "eslint-plugin-svelte";
import globals from "globals";
import ts from "typescript-eslint";
import svelteConfig from "./svelte.config.js";

export default ts.config(
  { ignores: ["node_modules"] },
  js.configs.recommended,
  ts.configs.recommendedTypeChecked,
  svelte.configs.recommended,
  {
    languageOptions: {
      globals: globals.browser,
      parserOptions: { projectService: { allowDefaultProject: ["*.js"] }, extraFileExtensions: [".svelte"], tsconfigRootDir: import.meta.dirname },
    },
  },
  { files: ["**/*.svelte", "**/*.svelte.ts"], languageOptions: { parserOptions: { parser: ts.parser, svelteConfig } } },
  // What stands in maps and sets is replaced, and a version tells of it: thousands of tiles are not watched one by one.
  { rules: { "svelte/prefer-svelte-reactivity": "off" } },
  // What components take and give is checked by svelte-check; to the parser here it is `any`.
  { files: ["**/*.svelte"], extends: [ts.configs.disableTypeChecked] },
);
