// Starts the client's WebAssembly. It is a file of its own so that the page needs no inline script.
const script = document.querySelector('script[data-wasm]');

try {
  if (typeof WebAssembly !== 'object') {
    throw new Error('This browser does not run WebAssembly, or it is switched off.');
  }
  const client = await import(script.dataset.js);
  await client.default({ module_or_path: script.dataset.wasm });
  document.getElementById('boot')?.remove();
} catch (error) {
  console.error(error);
  // From register.js, which runs while the page is being parsed.
  window.bootFailed?.(error);
}
