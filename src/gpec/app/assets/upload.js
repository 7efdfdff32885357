// A file above the limit never reaches the server: say so here.
(function () {
  const largest = 50 * 1024 * 1024;
  function refuse(files) {
    for (const file of files || []) {
      if (file.size > largest) {
        const note = `${file.name} is larger than 50 MB; name it on the command line instead.`;
        window.dash_clientside.set_props("file-note", { children: note });
      }
    }
  }
  document.addEventListener("change", (event) => refuse(event.target.files), true);
  document.addEventListener("drop", (event) => refuse(event.dataTransfer && event.dataTransfer.files), true);
})();
