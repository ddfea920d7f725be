// Runs before everything else: tells in words when the client does not start, and registers the service worker.
(() => {
  'use strict';

  const show = (sentence) => {
    const boot = document.getElementById('boot');
    if (!boot && document.readyState === 'loading') {
      document.addEventListener('DOMContentLoaded', () => show(sentence), { once: true });
      return;
    }
    if (!boot || boot.dataset.failed) return;
    boot.dataset.failed = 'yes';
    boot.setAttribute('role', 'alert');
    const what = document.createElement('p');
    what.textContent = sentence;
    const again = document.createElement('button');
    again.type = 'button';
    again.textContent = 'Load again';
    again.addEventListener('click', () => location.reload());
    boot.replaceChildren(what, again);
  };

  window.bootFailed = (error) => {
    const reason = error instanceof Error && error.message ? ` (${error.message})` : '';
    show(navigator.onLine
      ? `aude could not start in this browser${reason}. Load the page again; if that does not help, look whether aude runs on your machine with "aude doctor".`
      : 'aude could not start: this device is offline. Load the page again when it is connected.');
  };

  // A file that cannot be loaded fires an event that does not bubble, so it is caught on its way down.
  window.addEventListener('error', (event) => {
    if (event.target instanceof HTMLScriptElement) window.bootFailed(new Error(`${event.target.src} did not load`));
  }, true);

  if (!('noModule' in HTMLScriptElement.prototype)) {
    show('This browser is too old for aude: it does not load JavaScript modules. Use a current one.');
  }

  // Not there outside of a secure context; the client works without it, it is only not installable.
  navigator.serviceWorker?.register('/sw.js', { scope: '/', updateViaCache: 'none' }).catch((error) => {
    console.warn('The service worker was not registered:', error);
  });
})();
