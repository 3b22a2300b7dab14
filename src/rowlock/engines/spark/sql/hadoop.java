// The calls of a store on one of Hadoop's file systems, each one round trip from Python.  Spark's own Janino compiles this file at run time (see compiled.py).
package rowlock;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.EnumSet;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.AbstractFileSystem;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;

/** The files below one folder, which `FileSystem` reads and lists and `FileContext` renames. */
public class Hadoop {
    private final FileSystem system;
    private final FileContext context;
    private final Path root;

    public Hadoop(Configuration conf, String uri) throws IOException {
        Path path = new Path(uri);
        system = path.getFileSystem(conf);
        root = system.makeQualified(path);
        context = FileContext.getFileContext(root.toUri(), conf);
    }

    public String root() { return root.toString(); }

    /** The class of the file system that renames files of a folder: behind a mount table that of the place where the folder is mounted. */
    public static String kind(Configuration conf, String uri) throws IOException {
        Path there = new Path(uri);
        if (there.toUri().getAuthority() == null) there = there.getFileSystem(conf).makeQualified(there);
        String kind = AbstractFileSystem.get(there.toUri(), conf).getClass().getName();
        if (!kind.startsWith("org.apache.hadoop.fs.viewfs.")) return kind;
        FileContext context = FileContext.getFileContext(there.toUri(), conf);
        while (there.getParent() != null && !context.util().exists(there)) there = there.getParent();
        return AbstractFileSystem.get(context.resolvePath(there).toUri(), conf).getClass().getName();
    }

    /** The bytes from `start`, `length` at most; all where it is negative.  A file that is replaced in the meantime is read again. */
    public byte[] read(String path, long start, int length) throws IOException {
        Path file = new Path(path);
        for (;;) {
            FileStatus before = system.getFileStatus(file);
            FSDataInputStream in = system.open(file);
            try {
                if (start >= before.getLen()) return new byte[0];
                in.seek(start);
                return in.readNBytes(length < 0 ? Integer.MAX_VALUE : length);
            } catch (FileNotFoundException gone) {
                throw gone;
            } catch (IOException broken) {
                FileStatus now = system.getFileStatus(file);
                if (now.getModificationTime() == before.getModificationTime() && now.getLen() == before.getLen()) throw broken;
            } finally {
                in.close();
            }
        }
    }

    /** A new file for writing; its folders are made. */
    public FSDataOutputStream create(String path) throws IOException {
        return context.create(new Path(path), EnumSet.of(CreateFlag.CREATE), new Options.CreateOpts[] {Options.CreateOpts.createParent()});
    }

    public void write(String path, byte[] data) throws IOException {
        FSDataOutputStream out = create(path);
        try {
            out.write(data);
            out.hsync();
        } finally {
            out.close();
        }
    }

    public void rename(String source, String target, boolean replace) throws IOException {
        context.rename(new Path(source), new Path(target), new Options.Rename[] {replace ? Options.Rename.OVERWRITE : Options.Rename.NONE});
    }

    public boolean delete(String path) throws IOException { return system.delete(new Path(path), false); }

    /** Folder or file, size and time of what is at a path; null where nothing is. */
    public String info(String path) throws IOException {
        try {
            return told(system.getFileStatus(new Path(path)));
        } catch (FileNotFoundException absent) {
            return null;
        }
    }

    /** The same for all in a folder, divided by characters that no name has. */
    public String entries(String path) throws IOException {
        FileStatus[] found = system.listStatus(new Path(path));
        StringBuilder out = new StringBuilder();
        for (int i = 0; i < found.length; i++) out.append(told(found[i])).append('/');
        return out.toString();
    }

    private static String told(FileStatus status) {
        return (status.isDirectory() ? "d" : "f") + " " + status.getLen() + " " + status.getModificationTime() + " " + status.getPath().getName();
    }
}
