// The search box: where a key lives.

import { useState } from 'preact/hooks';
import { type KeyExplained, get } from './api.ts';
import { sentences } from './explained.ts';

export function Explain() {
  const [said, setSaid] = useState<string[]>([]);
  const ask = async (event: Event) => {
    event.preventDefault();
    const key = String(new FormData(event.currentTarget as HTMLFormElement).get('key') ?? '');
    if (!key) return setSaid([]);
    try {
      setSaid(sentences(await get<KeyExplained>(`/api/v1/explain?key=${encodeURIComponent(key)}`)));
    } catch (error) {
      setSaid([error instanceof Error ? error.message : String(error)]);
    }
  };
  return (
    <section class="explain" aria-label="Where a key lives">
      <form onSubmit={ask}>
        <label>
          Explain a key
          <input type="text" name="key" autocomplete="off" autocapitalize="off" spellcheck={false} maxLength={250} />
        </label>
        <button type="submit">Explain</button>
      </form>
      <ul aria-live="polite">
        {said.map((it) => (
          <li key={it}>{it}</li>
        ))}
      </ul>
    </section>
  );
}
