import http.server, threading, time, urllib.request
import keras, numpy as np

class Bucket(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(0.01)
        self.send_response(200)
        self.send_header("Content-Length", "2048")
        self.end_headers()
        self.wfile.write(bytes(2048))

    def log_message(self, *args):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Bucket)
threading.Thread(target=server.serve_forever, daemon=True).start()
address = f"http://127.0.0.1:{server.server_address[1]}/batch"

class Remote(keras.utils.PyDataset):
    def __len__(self):
        return 60

    def __getitem__(self, index):
        with urllib.request.urlopen(address) as answer:
            x = np.frombuffer(answer.read(), "float32").reshape(32, 16)
        return x, x[:, :1]

model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(Remote(workers=2), epochs=5, verbose=0)
server.shutdown()
