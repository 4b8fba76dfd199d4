//! What a file system is worth to a register.
//!
//! What always holds: the verdict is a pure function of the number by which the kernel names a file
//! system (`statfs`, `f_type`); network file systems are never accepted, because their locks and their
//! fsync mean what the server and the mount options make of them.
//!
//! What it does not do: see through FUSE, or through a disk that lies about its cache.

/// What a file system is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Worth {
    /// On a disk of this machine.
    Lasting,
    /// Gone with the machine's memory, or with the container.
    Volatile(&'static str),
    /// Shared over a network, or with other machines.
    Shared(&'static str),
    /// Anything may be behind it.
    Opaque(&'static str),
    /// Not known here.
    Unknown,
}

/// By the kernel's number (`linux/magic.h`, and the sources of those that are not in it).
pub(super) fn worth(magic: u32) -> Worth {
    match magic {
        0xEF53 // ext2, ext3, ext4
        | 0x5846_5342 // XFS
        | 0x9123_683E // Btrfs
        | 0x2FC1_2FC1 // ZFS
        | 0xF2F5_2010 // F2FS
        | 0xCA45_1A4E // bcachefs
        | 0x3153_464A // JFS
        | 0x5265_4973 // ReiserFS
        | 0x3434 // NILFS2
        => Worth::Lasting,

        0x0102_1994 => Worth::Volatile("tmpfs"),
        0x8584_58F6 => Worth::Volatile("ramfs"),
        0x9584_58F6 => Worth::Volatile("hugetlbfs"),
        0x794C_7630 => Worth::Volatile("overlayfs"),
        0x6175_6673 => Worth::Volatile("aufs"),

        0x6969 => Worth::Shared("NFS"),
        0x517B => Worth::Shared("SMB"),
        0xFF53_4D42 => Worth::Shared("CIFS"),
        0xFE53_4D42 => Worth::Shared("SMB2"),
        0x0102_1997 => Worth::Shared("9P"),
        0x00C3_6400 => Worth::Shared("Ceph"),
        0x5346_414F | 0x6B41_4653 => Worth::Shared("AFS"),
        0x7375_7245 => Worth::Shared("Coda"),
        0x564C => Worth::Shared("NCP"),
        0x0116_1970 => Worth::Shared("GFS2"),
        0x7461_636F => Worth::Shared("OCFS2"),
        0x0BD0_0BD0 => Worth::Shared("Lustre"),
        0x4750_4653 => Worth::Shared("GPFS"),
        0x1983_0326 => Worth::Shared("BeeGFS"),
        0xAAD7_AAEA => Worth::Shared("PanFS"),
        0x2003_0528 => Worth::Shared("OrangeFS"),
        0x6163_6673 => Worth::Shared("ACFS"),
        0xBEEF_DEAD => Worth::Shared("StorNext"),
        0x786F_4256 => Worth::Shared("a folder of VirtualBox's host"),
        0xBACB_ACBC => Worth::Shared("a folder of VMware's host"),
        0x7C7C_6673 => Worth::Shared("a folder of Parallels' host"),

        // virtiofs goes by the same number.
        0x6573_5546 => Worth::Opaque("FUSE"),

        _ => Worth::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers are the kernel's (`linux/magic.h`); a slip in one would let a network file system
    /// pass.
    #[test]
    fn every_file_system_gets_its_verdict() {
        let text = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes);
        for (magic, expected) in [
            (0xEF53, Worth::Lasting),
            (text(b"BSFX"), Worth::Lasting),
            (0x9123_683E, Worth::Lasting),
            (0x2FC1_2FC1, Worth::Lasting),
            (0xF2F5_2010, Worth::Lasting),
            (text(b"JFS1"), Worth::Lasting),
            (0x0102_1994, Worth::Volatile("tmpfs")),
            (0x8584_58F6, Worth::Volatile("ramfs")),
            (text(b"0vLy"), Worth::Volatile("overlayfs")),
            (0x6969, Worth::Shared("NFS")),
            (0x517B, Worth::Shared("SMB")),
            (text(b"BMS\xFF"), Worth::Shared("CIFS")),
            (text(b"BMS\xFE"), Worth::Shared("SMB2")),
            (0x0102_1997, Worth::Shared("9P")),
            (0x00C3_6400, Worth::Shared("Ceph")),
            (text(b"OAFS"), Worth::Shared("AFS")),
            (text(b"SFAk"), Worth::Shared("AFS")),
            (0x0116_1970, Worth::Shared("GFS2")),
            (text(b"ocat"), Worth::Shared("OCFS2")),
            (0x0BD0_0BD0, Worth::Shared("Lustre")),
            (text(b"SFPG"), Worth::Shared("GPFS")),
            (text(b"FUse"), Worth::Opaque("FUSE")),
            (0x0000_9FA0, Worth::Unknown),
        ] {
            assert_eq!(worth(magic), expected, "{magic:#x}");
        }
    }
}
