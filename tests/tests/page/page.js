const one = (name) => document.querySelector(`[data-test=${name}]`);
const composer = one('composer');
const send = () => {
  const item = document.createElement('li');
  item.textContent = composer.value;
  one('sent').append(item);
  localStorage.setItem('last', composer.value);
  composer.value = '';
};
composer.addEventListener('keydown', (event) => {
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing || event.keyCode === 229) return;
  event.preventDefault();
  send();
});
one('send').addEventListener('click', send);
let socket;
const show = (state) => { one('link').dataset.state = state; one('link').textContent = state; };
const connect = () => {
  let state = 'refused';
  socket = new WebSocket(`ws://${location.host}/socket`);
  socket.onopen = () => { show('open'); state = 'closed'; };
  socket.onclose = () => { show(state); setTimeout(connect, 50); };
};
connect();
navigator.serviceWorker.register('/worker.js');
