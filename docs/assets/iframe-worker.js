/* Search without a server: browsers start no Worker from a file, so its script runs in a hidden frame instead.

   The frame gets what the search script uses of a worker: postMessage, message events, importScripts. Pages that come from a
   server keep the Worker of the browser. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      this.onmessage = null;
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.onload = () => this.load(url);
      document.body.appendChild(this.frame);
    }

    /* A second load event, of the empty page that some browsers replace, must not start the script twice. */
    load(url) {
      if (this.inside) return;
      const inside = (this.inside = this.frame.contentWindow);
      inside.postMessage = (data) => this.tell(data);
      inside.importScripts = (...urls) => Promise.all(urls.map((each) => this.add(each)));
      this.add(url).then(() => {
        this.isReady = true;
        this.waiting.splice(0).forEach((data) => this.hand(data));
      });
    }

    add(url) {
      return new Promise((done, failed) => {
        const script = this.frame.contentDocument.createElement("script");
        script.src = url;
        script.onload = done;
        script.onerror = failed;
        this.frame.contentDocument.body.appendChild(script);
      });
    }

    postMessage(data) {
      if (this.isReady) this.hand(data);
      else this.waiting.push(data);
    }

    hand(data) {
      this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }));
    }

    tell(data) {
      const event = new MessageEvent("message", { data });
      this.dispatchEvent(event);
      if (this.onmessage) this.onmessage(event);
    }

    terminate() {
      this.frame.remove();
    }
  };
}
