export function pipelineView() { return document.createElement('p'); }
