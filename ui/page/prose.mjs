// Texts of the API, which have commands in backquotes.

import { html } from "./vendor/preact.mjs";

/** A text with its commands as code. */
export const prose = (text) => text.split("`").map((part, i) => (i % 2 ? html`<code>${part}</code>` : part));
