export function batchView() { return document.createElement('p'); }
