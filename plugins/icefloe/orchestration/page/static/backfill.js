export function backfillView() { return document.createElement('p'); }
