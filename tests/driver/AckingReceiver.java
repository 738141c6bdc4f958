package sparkscale.tests;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.Socket;
import java.util.ArrayList;

import org.apache.spark.storage.StorageLevel;
import org.apache.spark.streaming.receiver.Receiver;

/**
 * Takes lines from a server, each a batch of records with blanks between them, and acknowledges a
 * line once Spark has stored it: a reliable receiver, as Spark's documentation has it. Written for
 * Janino, which Spark brings: no generics, no lambdas.
 */
public class AckingReceiver extends Receiver {
    private final String host;
    private final int port;
    private transient volatile Socket socket;

    public AckingReceiver(String host, int port) {
        super(StorageLevel.MEMORY_AND_DISK_SER());
        this.host = host;
        this.port = port;
    }

    public void onStart() {
        Thread thread = new Thread("acking-receiver") {
            public void run() {
                receive();
            }
        };
        thread.setDaemon(true);
        thread.start();
    }

    public void onStop() {
        close();
    }

    private void close() {
        try {
            if (socket != null) {
                socket.close();
            }
        } catch (Exception e) {
            // It is gone either way.
        }
    }

    private void receive() {
        try {
            socket = new Socket(host, port);
            BufferedReader lines = new BufferedReader(
                new InputStreamReader(socket.getInputStream(), "UTF-8"));
            OutputStream out = socket.getOutputStream();
            String line = lines.readLine();
            while (!isStopped() && line != null) {
                ArrayList records = new ArrayList();
                String[] words = line.split(" ");
                for (int i = 0; i < words.length; i++) {
                    records.add(words[i]);
                }
                store(records.iterator());
                out.write("stored\n".getBytes("UTF-8"));
                out.flush();
                line = lines.readLine();
            }
        } catch (Exception e) {
            // Restarted below, unless it was told to stop.
        } finally {
            close();
        }
        if (!isStopped()) {
            restart("the connection has ended");
        }
    }
}
