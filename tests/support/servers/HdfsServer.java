// One name node and one data node of HDFS in a JVM; WebHDFS is at 127.0.0.1.
// java -cp "..." HdfsServer.java FOLDER HTTP_PORT

import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

public class HdfsServer {
    public static void main(String[] arguments) throws Exception {
        HdfsConfiguration settings = new HdfsConfiguration();
        settings.set("hdfs.minidfs.basedir", arguments[0]);
        // Whoever asks may write: the tests have one user.
        settings.setBoolean("dfs.permissions.enabled", false);
        MiniDFSCluster cluster = new MiniDFSCluster.Builder(settings)
            .nameNodeHttpPort(Integer.parseInt(arguments[1]))
            .numDataNodes(1)
            .build();
        cluster.waitActive();
        Files.createFile(Path.of(arguments[0], "ready"));
        Thread.currentThread().join();
    }
}
